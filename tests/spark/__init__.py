"""The data source of Spark: planning and decoding without Spark, then the important with it."""
