"""The factor mixture: UCUU and its family."""
