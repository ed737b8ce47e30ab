/** Normalizes a name for search and comparison: composed and case-folded; both forms of the Greek sigma become one. */
export function normalizeForSearch(name: string): string {
  return name.normalize('NFC').toLowerCase().replaceAll('ς', 'σ').normalize('NFC');
}
