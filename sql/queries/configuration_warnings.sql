-- no parameters
select name, subject, says from tidegate.configuration_warning;
