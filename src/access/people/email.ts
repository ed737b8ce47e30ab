const MAX_LENGTH = 254;

/** Returns the error text for a trimmed e-mail address; undefined if it is valid or empty. */
export function findEmailError(email: string): string | undefined {
  if (email === '' || (email.length <= MAX_LENGTH && /^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u.test(email))) return undefined;
  return 'is not a valid e-mail address: use one such as name@site.example, or leave it empty';
}
