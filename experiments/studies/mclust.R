# Best BIC of mclust's 14 models on csv files of standardized columns, each FOLDER/NAME.csv with the column `class` first.
# Usage: Rscript mclust.R FOLDER [NUMBERS [SEED]], as `mclust.R tables 1:9 0`; without NUMBERS, G from 1 to 6 and at the
# number of classes. Prints csv: BIC as -2 log L + k log N.
suppressMessages(library(mclust))
given <- commandArgs(TRUE)
files <- list.files(given[1], pattern = "[.]csv$", full.names = TRUE)
cat("data,G,chosen,model,bic,ari,seconds\n")
for (file in files) {
  table <- read.csv(file)
  truth <- table$class
  X <- as.matrix(table[, -1])
  numbers <- list(1:6, length(unique(truth)))
  if (length(given) > 1) {
    ends <- as.integer(strsplit(given[2], ":")[[1]])
    numbers <- list(ends[1]:ends[length(ends)])
  }
  for (G in numbers) {
    set.seed(if (length(given) > 2) as.integer(given[3]) else 0)
    took <- system.time(fit <- Mclust(X, G = G, verbose = FALSE))["elapsed"]
    known <- if (length(G) > 1) paste(G[1], "to", G[length(G)]) else as.character(G)
    ari <- adjustedRandIndex(truth, fit$classification)
    name <- sub("[.]csv$", "", basename(file))
    cat(sprintf("%s,%s,%d,%s,%.1f,%.3f,%.2f\n", name, known, fit$G, fit$modelName, -fit$bic, ari, took))
  }
}
