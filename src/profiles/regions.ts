/** The LoRaWAN regions, as profiles and responses name them. */
export const REGIONS = [
  'EU868',
  'US915',
  'AU915',
  'AS923',
  'AS923_2',
  'AS923_3',
  'AS923_4',
  'IN865',
  'KR920',
  'CN470',
  'EU433',
  'RU864',
  'CN779',
  'ISM2400',
] as const;

/** One of REGIONS. */
type Region = (typeof REGIONS)[number];

/**
 * Other names of the regions: a frequency band written with both ends, or a group with its number. Separators are
 * removed.
 */
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

const REGION_BY_NAME = new Map<string, Region>([
  ...REGIONS.map((region) => [region.replace('_', ''), region] as const),
  ...Object.entries(OTHER_NAMES),
]);

// Two or three letters and digits, for example `EU_863-870`: a hyphen or an underscore may separate the parts.
const REGION_NAME = /^[a-z]{2,3}(?:[-_]?\d){3,8}$/i;

/** Finds the region for a name such as `EU868`, `EU863-870` or `EU_863_870` in any case; undefined if there is none. */
export function findRegion(text: string): Region | undefined {
  const trimmed = text.trim();
  return REGION_NAME.test(trimmed) ? REGION_BY_NAME.get(trimmed.replace(/[-_]/g, '').toUpperCase()) : undefined;
}

/**
 * Lists the regions whose profiles fit a region, the closest first. LoRaWAN divides AS923 into groups (AS923 itself is
 * the first one, then AS923_2 to AS923_4), and a profile for AS923 fits all of them.
 */
export function listServingRegions(region: string): readonly string[] {
  return region.startsWith('AS923_') ? [region, 'AS923'] : [region];
}

/** Returns whether a profile for the region `offered` fits the region `requested`. */
export function servesRegion(offered: string, requested: string): boolean {
  return listServingRegions(requested).includes(offered);
}
