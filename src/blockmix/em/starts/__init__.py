"""Where EM begins: k-means and the others, annealing, modes."""
