"""The estimators: scikit-learn's contract around the families of EM."""
