import { isIP } from 'node:net';
import { z } from 'zod';
import type * as cronSchedule from '../kernel/cronSchedule';
import { parseSecretKey } from '../kernel/parseSecretKey';
import { parseHostPort } from './hostPort';

/** Loads the cron parser on first use: only commands that use a schedule need it. */
const loadCronSchedule = (): typeof cronSchedule => require('../kernel/cronSchedule');

/** A string setting. */
export const text = (): z.ZodString => z.string('must be a string');

const BOOLEANS: ReadonlyMap<unknown, boolean> = new Map([
  ['true', true],
  ['false', false],
]);

/** A boolean setting; accepts the strings `true` and `false`. */
export const flag = (): z.ZodType<boolean> =>
  z.preprocess((value) => BOOLEANS.get(value) ?? value, z.boolean('must be true or false'));

/** A whole-number setting from `min` to `max`; accepts its decimal string. */
export function wholeNumber(min: number, max: number): z.ZodType<number> {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.preprocess(
    (value) => (typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value),
    z.int({ error }).min(min, { error }).max(max, { error }),
  );
}

/** One of a fixed set of words. */
export const choice = <const Words extends readonly [string, ...string[]]>(
  words: Words,
): z.ZodEnum<{ [Word in Words[number]]: Word }> => z.enum(words, { error: `must be one of ${words.join(', ')}` });

/** A list of strings; accepts a comma-separated string. */
export const list = (): z.ZodType<readonly string[]> =>
  z.preprocess(
    (value) => (typeof value === 'string' ? splitAtCommas(value) : value),
    z.array(z.string('must be a list of strings'), 'must be a list, or a comma-separated string'),
  );

/** Splits a text at commas, trims the items and omits empty ones. */
function splitAtCommas(value: string): string[] {
  return value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

/** `host:port`, or the word that disables the listener. */
export const listenAddress = (disabledWord?: string): z.ZodType<string> =>
  text().refine(
    (value) => value === disabledWord || parseHostPort(value) !== undefined,
    'must be host:port with a port from 0 to 65535, for example 0.0.0.0:50051 or [::]:50051',
  );

/** A base URL without a trailing slash, a query and a fragment, or an empty string. */
export const baseUrl = (): z.ZodType<string> =>
  text().refine(
    (value) => value === '' || (/^https?:\/\/[^?#]*[^/?#]$/.test(value) && URL.canParse(value)),
    'must be empty or a base URL without a trailing slash, a query and a fragment, for example https://plant.example:8443',
  );

/** Origins of web pages, or `*` for all. */
export const origins = (): z.ZodType<readonly string[]> =>
  list().refine(
    (values) => values.every(isOrigin),
    'must be a list of origins as browsers send them, scheme://host or scheme://host:port in lower case, without a path and without the usual port, for example https://console.example; or * for all',
  );

/** IP addresses and networks in CIDR notation. */
export const networks = (): z.ZodType<readonly string[]> =>
  list().refine(
    (values) => values.every(isNetwork),
    'must be a list of IP addresses or networks, for example 192.0.2.10 or 192.0.2.0/24 or 2001:db8::/32; /0 is not allowed, because it would trust every client',
  );

/** Whether a text is `*` or an origin as browsers send it, so that it can be compared as text. */
function isOrigin(value: string): boolean {
  if (value === '*') return true;
  if (/^https?:/.test(value)) return URL.canParse(value) && new URL(value).origin === value;
  // Applications send origins with schemes of their own, which URL does not parse: capacitor://localhost.
  return /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@]+$/.test(value);
}

/** Whether a text is an IP address, or a network in CIDR notation with a prefix of at least 1. */
function isNetwork(value: string): boolean {
  const [address = '', prefixLength, ...more] = value.split('/');
  // 4, 6, or 0 for a text that is not an address. An address with an interface (`fe80::1%eth0`) is not accepted.
  const version = address.includes('%') ? 0 : isIP(address);
  if (version === 0 || more.length > 0) return false;
  if (prefixLength === undefined) return true;
  const maxPrefixLength = version === 4 ? 32 : 128;
  return /^[1-9]\d{0,2}$/.test(prefixLength) && Number(prefixLength) <= maxPrefixLength;
}

/** A database URL, or an empty string for SQLite. */
export const databaseUrl = (): z.ZodType<string> =>
  text().refine(
    (value) => value === '' || (/^postgres(ql)?:\/\//.test(value) && URL.canParse(value)),
    'must be empty (SQLite in the data folder) or postgres://user:password@host:port/database',
  );

/** 32 bytes in base64, or an empty string. */
export const secretKey = (): z.ZodType<string> =>
  text().refine(
    (value) => value === '' || parseSecretKey(value) !== undefined,
    'must be 32 random bytes in base64, for example the output of "openssl rand -base64 32"',
  );

/** A cron expression that matches at least one future time, or `off`. */
export const schedule = (): z.ZodType<string> =>
  text().superRefine((value, context) => {
    const message = value === 'off' ? undefined : loadCronSchedule().findScheduleError(value);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  });

/** The URL of an OTLP/HTTP trace collector, or an empty string. */
export const traceEndpoint = (): z.ZodType<string> =>
  text().refine(
    (value) => value === '' || (/^https?:\/\//.test(value) && URL.canParse(value)),
    'must be empty or the full URL of an OTLP/HTTP collector, for example http://localhost:4318/v1/traces',
  );
