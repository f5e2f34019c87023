"""Operations among members of one host, through memory that all of them map."""
