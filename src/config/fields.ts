import { isIP } from 'node:net';
import { z } from 'zod';
import { findKeyIn } from '../kernel/findKeyIn';
import { findHostPort } from './listen';

/** Text as it is. */
export const text = (): z.ZodString => z.string('must be a text');

/** `true` or `false`, also as text. */
export const flag = (): z.ZodType<boolean> =>
  z.preprocess((value) => (value === 'true' ? true : value === 'false' ? false : value), z.boolean('must be true or false'));

/** A whole number from `least` to `most`, also as text. */
export function count(least: number, most: number): z.ZodType<number> {
  const error = `must be a whole number from ${least} to ${most}`;
  return z.preprocess((value) => (typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value), z.int({ error }).min(least, { error }).max(most, { error }));
}

/** One of some words. */
export const choice = <const Words extends readonly [string, ...string[]]>(words: Words): z.ZodEnum<{ [Word in Words[number]]: Word }> =>
  z.enum(words, { error: `must be one of ${words.join(', ')}` });

/** A list of texts, also as one text with commas. */
export const list = (): z.ZodType<readonly string[]> =>
  z.preprocess(
    (value) => (typeof value === 'string' ? value.split(',').map((item) => item.trim()).filter(Boolean) : value),
    z.array(z.string('must be a list of texts'), 'must be a list, or one text with commas between'),
  );

/** `host:port`, or a word that may stand for none. */
export const listenAddress = (none?: string): z.ZodType<string> =>
  text().refine((value) => value === none || findHostPort(value) !== undefined, 'must be host:port with a port from 0 to 65535, for example 0.0.0.0:50051 or [::]:50051');

/** The beginning of addresses, without a slash at its end, or nothing. */
export const baseUrl = (): z.ZodType<string> =>
  text().refine((value) => value === '' || (/^https?:\/\/[^?#]*[^/?#]$/.test(value) && URL.canParse(value)), 'must be empty or the beginning of an address without a slash at its end, for example https://plant.example:8443');

/** Origins of web pages, or `*` for all. */
export const origins = (): z.ZodType<readonly string[]> =>
  list().refine((values) => values.every(isOrigin), 'must be a list of origins as browsers send them, scheme://host or scheme://host:port in lower case, without a path and without the usual port, for example https://console.example; or * for all');

/** Addresses and networks. */
export const networks = (): z.ZodType<readonly string[]> =>
  list().refine((values) => values.every(isNetwork), 'must be a list of addresses or networks, for example 192.0.2.10 or 192.0.2.0/24 or 2001:db8::/32; not of everything (/0), which would believe everybody');

function isOrigin(value: string): boolean {
  if (value === '*') return true;
  if (/^https?:/.test(value)) return URL.canParse(value) && new URL(value).origin === value;
  return /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@]+$/.test(value);
}

function isNetwork(value: string): boolean {
  const [address = '', bits, ...more] = value.split('/');
  const version = address.includes('%') ? 0 : isIP(address);
  if (version === 0 || more.length > 0) return false;
  return bits === undefined || (/^[1-9]\d{0,2}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
}

/** A database URL, or nothing for SQLite. */
export const databaseUrl = (): z.ZodType<string> =>
  text().refine((value) => value === '' || (/^postgres(ql)?:\/\//.test(value) && URL.canParse(value)), 'must be empty (SQLite in the data folder) or postgres://user:password@host:port/database');

/** 32 bytes in base64, or nothing. */
export const secretKey = (): z.ZodType<string> =>
  text().refine((value) => value === '' || findKeyIn(value) !== undefined, 'must be 32 random bytes in base64, for example what "openssl rand -base64 32" prints');

/** When something is done, as cron writes it, or `off`. Whether there is such a time the schedule itself finds out. */
export const schedule = (): z.ZodType<string> =>
  text().refine((value) => value === 'off' || /^\S+(?: \S+){4}$/.test(value), 'must be off, or five fields as cron writes them, for example "30 2 * * *" for daily at 02:30');

/** Where an OTLP collector takes traces over HTTP, or nothing. */
export const traceEndpoint = (): z.ZodType<string> =>
  text().refine((value) => value === '' || (/^https?:\/\//.test(value) && URL.canParse(value)), 'must be empty or the whole address of an OTLP/HTTP collector, for example http://localhost:4318/v1/traces');
