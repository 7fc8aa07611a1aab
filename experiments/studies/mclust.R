# Best BIC of mclust's 14 models, G from 1 to 6 and at the known number of classes, on csv files of standardized columns.
# Usage: Rscript mclust.R FOLDER; each FOLDER/NAME.csv has the column `class` first. Prints csv: BIC as -2 log L + k log N.
suppressMessages(library(mclust))
files <- list.files(commandArgs(TRUE)[1], pattern = "[.]csv$", full.names = TRUE)
cat("data,G,chosen,model,bic,ari,seconds\n")
for (file in files) {
  table <- read.csv(file)
  truth <- table$class
  X <- as.matrix(table[, -1])
  for (G in list(1:6, length(unique(truth)))) {
    set.seed(0)
    took <- system.time(fit <- Mclust(X, G = G, verbose = FALSE))["elapsed"]
    known <- if (length(G) > 1) "1 to 6" else as.character(G)
    ari <- adjustedRandIndex(truth, fit$classification)
    name <- sub("[.]csv$", "", basename(file))
    cat(sprintf("%s,%s,%d,%s,%.1f,%.3f,%.2f\n", name, known, fit$G, fit$modelName, -fit$bic, ari, took))
  }
}
