/** ` (uid 10001)`: who this process is, for messages about rights. In a container no name says it. Empty where users have no numbers. */
export function userIdText(): string {
  const id = process.geteuid?.();
  return id === undefined ? '' : ` (uid ${id})`;
}
