const LONGEST = 254;

/** What is wrong with an e-mail address that is trimmed; undefined: nothing. An empty one says that there is none. */
export function emailFault(email: string): string | undefined {
  if (email === '' || (email.length <= LONGEST && /^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u.test(email))) return undefined;
  return 'is not an e-mail address; give one like name@site.example, or none';
}
