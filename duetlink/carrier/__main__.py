"""`python -m duetlink.carrier`: started by a kernel, which talks to it on standard input and output."""

from duetlink.carrier.process import main

if __name__ == "__main__":
    main()
