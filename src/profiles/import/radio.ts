import { shortened } from '../../kernel/shortened';
import type { RadioProfile } from '../profile';
import { shortText, textOf } from './fields';
import type { Outcome } from './outcome';

/** What a profile's file says, as it stands there; undefined: nothing. */
export type RadioWords = { readonly [Field in keyof Omit<RadioProfile, 'region'>]: unknown };

/** How a device is set up, but for its region. */
export type RadioSettings = Omit<RadioProfile, 'region'>;

const MAC_VERSIONS = ['1.0.0', '1.0.1', '1.0.2', '1.0.3', '1.0.4', '1.1.0'];

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

const LARGEST_INTEGER = 2 ** 31 - 1;

/** The settings that a file says, in our words; `note` is told what had to be assumed. Without a LoRaWAN version it is of no use. */
export function radioSettings(words: RadioWords, note: (reason: string) => void): Outcome<RadioSettings> {
  const macVersion = macVersionOf(words.macVersion);
  if ('problem' in macVersion) return macVersion;
  const flag = (field: 'supportsClassB' | 'supportsClassC' | 'supportsOtaa' | 'flushQueueOnActivate', otherwise: boolean): boolean => flagOf(words[field], field, otherwise, note);
  const count = (field: 'uplinkInterval' | 'deviceStatusReqInterval', least: number, otherwise: number): number => countOf(words[field], field, least, otherwise, note);
  return {
    value: {
      macVersion: macVersion.value,
      regParamsRevision: revisionOf(words.regParamsRevision, note),
      deviceStatusReqInterval: count('deviceStatusReqInterval', 0, 1),
      uplinkInterval: count('uplinkInterval', 1, 3600),
      flushQueueOnActivate: flag('flushQueueOnActivate', true),
      supportsClassB: flag('supportsClassB', false),
      supportsClassC: flag('supportsClassC', false),
      supportsOtaa: flag('supportsOtaa', true),
    },
  };
}

/** `1.0` and `1.1` are spelled out; `LORAWAN_1_0_3` is 1.0.3. */
function macVersionOf(value: unknown): Outcome<string> {
  const text = textOf(value);
  if (text === undefined) return { problem: `says no LoRaWAN version; give one of ${MAC_VERSIONS.join(', ')}` };
  if (value === 1) return { problem: `has the LoRaWAN version as a number, which stands for no version; put it in quotes, and give one of ${MAC_VERSIONS.join(', ')}` };
  const numbers = /^(?:\D*[ _v])?(\d(?:[._]\d+){1,2})$/i.exec(text)?.[1]?.replaceAll('_', '.') ?? '';
  const version = /^\d\.\d+$/.test(numbers) ? `${numbers}.0` : numbers;
  return MAC_VERSIONS.includes(version) ? { value: version } : { problem: `has the LoRaWAN version ${quoted(text)}, which is none; give one of ${MAC_VERSIONS.join(', ')}` };
}

function revisionOf(value: unknown, note: (reason: string) => void): string {
  const text = textOf(value);
  if (text === undefined) {
    note('says no revision of the regional parameters; A is assumed');
    return 'A';
  }
  const folded = text.toUpperCase();
  const known = REVISIONS[folded] ?? /^RP002[-_]1[._]0[._]\d$/.exec(folded)?.[0].replaceAll('_', '.').replace(/^RP002./, 'RP002-');
  if (known === undefined) note(`has the revision of the regional parameters ${quoted(text)}, which is not known; it is kept as it is`);
  return known ?? shortText(text, 64);
}

const FLAGS = new Map([...['true', 'yes', 'on'].map((word) => [word, true] as const), ...['false', 'no', 'off'].map((word) => [word, false] as const)]);

function flagOf(value: unknown, field: string, otherwise: boolean, note: (reason: string) => void): boolean {
  if (value === undefined || value === null) {
    // Nearly all devices join; one that says nothing of it is not taken for one that cannot.
    if (field === 'supportsOtaa') note('does not say whether the device joins; OTAA is assumed');
    return otherwise;
  }
  const flag = FLAGS.get((textOf(value) ?? '').toLowerCase());
  if (flag === undefined) note(`says ${field} in another way than by true or false; ${otherwise} is assumed`);
  return flag ?? otherwise;
}

function countOf(value: unknown, field: string, least: number, otherwise: number, note: (reason: string) => void): number {
  if (value === undefined || value === null) return otherwise;
  const number = Number(textOf(value) ?? Number.NaN);
  if (Number.isInteger(number) && number >= least && number <= LARGEST_INTEGER) return number;
  note(`has ${field} that is no whole number from ${least} to ${LARGEST_INTEGER}; ${otherwise} is assumed`);
  return otherwise;
}

const quoted = (text: string): string => JSON.stringify(shortened(text, 64));
