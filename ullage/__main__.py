"""`python -m ullage` is `ullage`."""

from ullage.cli.start import main

if __name__ == "__main__":
    main()
