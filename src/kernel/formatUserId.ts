/**
 * Returns ` (uid 10001)`, the user id of this process, for messages about permissions: in a container users often have
 * no name. Empty where users have no numbers.
 */
export function formatUserId(): string {
  const id = process.geteuid?.();
  return id === undefined ? '' : ` (uid ${id})`;
}
