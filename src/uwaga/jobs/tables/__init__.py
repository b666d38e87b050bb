"""Lakes: columns of any number of rows, translated on many cores or machines, into parts that are whole."""
