"""EM: one loop, the protocol of a family of mixtures, and the families."""
