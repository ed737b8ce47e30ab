/** The regions that LoRaWAN divides the world into, as profiles and answers name them. */
export const REGIONS = ['EU868', 'US915', 'AU915', 'AS923', 'AS923_2', 'AS923_3', 'AS923_4', 'IN865', 'KR920', 'CN470', 'EU433', 'RU864', 'CN779', 'ISM2400'] as const;

/** One of REGIONS. */
export type Region = (typeof REGIONS)[number];

/** What each region is called besides its name: its band by both ends, or the group by its number. Without what stands between the parts. */
const OTHER_NAMES: Readonly<Record<string, Region>> = {
  EU863870: 'EU868',
  US902928: 'US915',
  AU915928: 'AU915',
  AS9231: 'AS923',
  IN865867: 'IN865',
  KR920923: 'KR920',
  CN470510: 'CN470',
  EU433434: 'EU433',
  RU864870: 'RU864',
  CN779787: 'CN779',
};

const BY_SPELLING = new Map<string, Region>([...REGIONS.map((region) => [region.replace('_', ''), region] as const), ...Object.entries(OTHER_NAMES)]);

// Each part may stand apart by one of these; a letter more or less is another word.
const SPELLING = /^[a-z]{2,3}(?:[-_]?\d){3,8}$/i;

/** The region that a text names as `EU868`, `EU863-870` or `EU_863_870`, in any case; undefined: none. */
export function findRegion(text: string): Region | undefined {
  const trimmed = text.trim();
  return SPELLING.test(trimmed) ? BY_SPELLING.get(trimmed.replace(/[-_]/g, '').toUpperCase()) : undefined;
}

/** The regions whose profiles serve a region, the closest first: what is made for AS923 is made for all four of its groups. */
export function servingRegions(region: string): readonly string[] {
  return region.startsWith('AS923_') ? [region, 'AS923'] : [region];
}

/** Whether a profile of the region `offered` serves `asked`. */
export function servesRegion(offered: string, asked: string): boolean {
  return servingRegions(asked).includes(offered);
}
