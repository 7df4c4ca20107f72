"""Pure functions over rows: DataFrame in, DataFrame out. They read no files, draw nothing and know no device."""
