"""What is shown, as rows: a pure function of facts and time, kept up row by row. No I/O, no clock, no HTTP."""
