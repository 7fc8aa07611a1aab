# Modules of the tables in a folder by WGCNA, unsigned, since modules have columns of both signs.
#
# Rscript wgcna.R FOLDER: each FOLDER/*.csv, a table of numbers without a header, gives FOLDER/*.labels with one line per
# column, 0 for no module, and FOLDER/*.seconds.

suppressMessages(library(WGCNA))
# It empties the memory dozens of times for each table, which takes most of the time and changes no result.
assignInNamespace("collectGarbage", function() invisible(NULL), "WGCNA")

folder <- commandArgs(trailingOnly = TRUE)[1]
for (path in list.files(folder, pattern = "\\.csv$", full.names = TRUE)) {
  done <- sub("csv$", "labels", path)
  if (file.exists(done)) next
  X <- as.matrix(read.csv(path, header = FALSE))
  started <- proc.time()[["user.self"]]
  invisible(capture.output(power <- pickSoftThreshold(X, verbose = 0)$powerEstimate))
  if (is.na(power)) power <- 6
  invisible(capture.output(
    found <- blockwiseModules(X, power = power, minModuleSize = 5, numericLabels = TRUE, verbose = 0)
  ))
  writeLines(as.character(found$colors), done)
  writeLines(as.character(proc.time()[["user.self"]] - started), sub("csv$", "seconds", path))
}
