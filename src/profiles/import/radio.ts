import { truncateForDisplay } from '../../kernel/truncate';
import type { RadioProfile } from '../profile';
import { formatShortText, formatText } from './fields';
import type { Outcome } from '../../kernel/outcome';

/** The fields of a profile file, unparsed; undefined if absent. */
export type RawRadioFields = { readonly [Field in keyof Omit<RadioProfile, 'region'>]: unknown };

/** The radio settings of a profile without its region. */
export type RadioSettings = Omit<RadioProfile, 'region'>;

const MAC_VERSIONS = ['1.0.0', '1.0.1', '1.0.2', '1.0.3', '1.0.4', '1.1.0'];

/** The revisions A and B under the names that the repositories use. */
const REVISIONS: Readonly<Record<string, string>> = {
  A: 'A',
  'TS001-1.0': 'A',
  'TS001-1.0.0': 'A',
  'TS001-1.0.1': 'A',
  'RP001-1.0.2': 'A',
  'RP001-1.0.2-REVA': 'A',
  'RP001-1.0.3': 'A',
  'RP001-1.0.3-REVA': 'A',
  'RP001-1.1': 'A',
  'RP001-1.1-REVA': 'A',
  B: 'B',
  'RP001-1.0.2-REVB': 'B',
  'RP001-1.1-REVB': 'B',
};

const MAX_INTEGER = 2 ** 31 - 1;

/**
 * Normalizes the settings of a profile file. Calls `warn` for every value that had to be assumed. A file without a
 * valid LoRaWAN version is an error.
 */
export function normalizeRadioSettings(fields: RawRadioFields, warn: (reason: string) => void): Outcome<RadioSettings> {
  const macVersion = parseMacVersion(fields.macVersion);
  if ('problem' in macVersion) return macVersion;
  const readFlag = (
    field: 'supportsClassB' | 'supportsClassC' | 'supportsOtaa' | 'flushQueueOnActivate',
    fallback: boolean,
  ): boolean => parseFlag(fields[field], field, fallback, warn);
  const readCount = (field: 'uplinkInterval' | 'deviceStatusReqInterval', min: number, fallback: number): number =>
    parseCount(fields[field], field, { min, fallback }, warn);
  return {
    value: {
      macVersion: macVersion.value,
      regParamsRevision: parseRevision(fields.regParamsRevision, warn),
      deviceStatusReqInterval: readCount('deviceStatusReqInterval', 0, 1),
      uplinkInterval: readCount('uplinkInterval', 1, 3600),
      flushQueueOnActivate: readFlag('flushQueueOnActivate', true),
      supportsClassB: readFlag('supportsClassB', false),
      supportsClassC: readFlag('supportsClassC', false),
      supportsOtaa: readFlag('supportsOtaa', true),
    },
  };
}

/** Normalizes a LoRaWAN version: `1.0` becomes 1.0.0, `1.1` becomes 1.1.0, `LORAWAN_1_0_3` becomes 1.0.3. */
function parseMacVersion(value: unknown): Outcome<string> {
  const text = formatText(value);
  if (text === undefined) return { problem: `has no LoRaWAN version; use one of ${MAC_VERSIONS.join(', ')}` };
  // A parser reads 1.0 without quotes as the number 1, which the message explains.
  if (value === 1)
    return {
      problem: `has the LoRaWAN version as a number; put it in quotes and use one of ${MAC_VERSIONS.join(', ')}`,
    };
  const numbers = /^(?:\D*[ _v])?(\d(?:[._]\d+){1,2})$/i.exec(text)?.[1]?.replaceAll('_', '.') ?? '';
  const version = /^\d\.\d+$/.test(numbers) ? `${numbers}.0` : numbers;
  return MAC_VERSIONS.includes(version)
    ? { value: version }
    : {
        problem: `has the LoRaWAN version ${quoteForDisplay(text)}, which is not valid; use one of ${MAC_VERSIONS.join(', ')}`,
      };
}

/** Normalizes the revision of the regional parameters, for example `RP002_1_0_3` to `RP002-1.0.3`. */
function parseRevision(value: unknown, warn: (reason: string) => void): string {
  const text = formatText(value);
  if (text === undefined) {
    warn('has no revision of the regional parameters; A is assumed');
    return 'A';
  }
  const folded = text.toUpperCase();
  const known =
    REVISIONS[folded] ??
    /^RP002[-_]1[._]0[._]\d$/
      .exec(folded)?.[0]
      .replaceAll('_', '.')
      .replace(/^RP002./, 'RP002-');
  if (known === undefined)
    warn(
      `has the revision of the regional parameters ${quoteForDisplay(text)}, which is unknown; it is stored unchanged`,
    );
  return known ?? formatShortText(text, 64);
}

const FLAGS = new Map([
  ...['true', 'yes', 'on'].map((word) => [word, true] as const),
  ...['false', 'no', 'off'].map((word) => [word, false] as const),
]);

/** Reads a boolean, also as `yes` or `off`. Without a valid value, returns `fallback`. */
function parseFlag(value: unknown, field: string, fallback: boolean, warn: (reason: string) => void): boolean {
  if (value === undefined || value === null) {
    // Nearly all devices support OTAA, so it is the default.
    if (field === 'supportsOtaa') warn('does not say whether the device supports OTAA; true is assumed');
    return fallback;
  }
  const flag = FLAGS.get((formatText(value) ?? '').toLowerCase());
  if (flag === undefined) warn(`has ${field} that is neither true nor false; ${fallback} is assumed`);
  return flag ?? fallback;
}

/** Reads a whole number of at least `min`. Without a valid value, returns `fallback`. */
function parseCount(
  value: unknown,
  field: string,
  { min, fallback }: { readonly min: number; readonly fallback: number },
  warn: (reason: string) => void,
): number {
  if (value === undefined || value === null) return fallback;
  const number = Number(formatText(value) ?? Number.NaN);
  if (Number.isInteger(number) && number >= min && number <= MAX_INTEGER) return number;
  warn(`has ${field} that is not a whole number from ${min} to ${MAX_INTEGER}; ${fallback} is assumed`);
  return fallback;
}

const quoteForDisplay = (text: string): string => JSON.stringify(truncateForDisplay(text, 64));
