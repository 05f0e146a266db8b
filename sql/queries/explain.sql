-- $1 id
select reason, sentence, figures from tidegate.explain($1);
