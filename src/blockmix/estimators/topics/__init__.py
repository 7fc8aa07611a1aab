"""Topics of documents: terms, the estimator, and how important term groups are to topics."""
