"""`python -m ullage` is `ullage`."""

from ullage.cli.main import main

if __name__ == "__main__":
    main()
