/** Formats Unix milliseconds as ISO 8601; null for undefined. */
export function formatTime(milliseconds: number | undefined): string | null {
  return milliseconds === undefined ? null : new Date(milliseconds).toISOString();
}
