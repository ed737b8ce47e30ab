/** Unix milliseconds as ISO 8601; null for none. */
export function timeText(milliseconds: number | undefined): string | null {
  return milliseconds === undefined ? null : new Date(milliseconds).toISOString();
}
