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

/** A database URL, or nothing for SQLite. */
export const databaseUrl = (): z.ZodType<string> =>
  text().refine((value) => value === '' || (/^postgres(ql)?:\/\//.test(value) && URL.canParse(value)), 'must be empty (SQLite in the data folder) or postgres://user:password@host:port/database');

/** 32 bytes in base64, or nothing. */
export const secretKey = (): z.ZodType<string> =>
  text().refine((value) => value === '' || findKeyIn(value) !== undefined, 'must be 32 random bytes in base64, for example what "openssl rand -base64 32" prints');
