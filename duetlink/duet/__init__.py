"""Assets, pointers, requests and answers: who offers what, who asked, who said yes."""
