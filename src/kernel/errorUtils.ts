/** Returns the code of a thrown value (`ENOENT`, `SQLITE_BUSY`, `40001`); empty if it has none. */
export function getCode(error: unknown): string {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : '';
}

/** Returns the message of a thrown value; empty if it has none. */
export function formatMessage(error: unknown): string {
  const message = (error as { message?: unknown } | null | undefined)?.message;
  return typeof message === 'string' ? message : '';
}
