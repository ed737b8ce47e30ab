import { z } from 'zod';
import { BACKUP_FORMAT, MANIFEST, type BackupManifest } from './manifest';
import { backupTooNew, damagedBackup, notBackup } from './backupErrors';

/** The longest manifest that is written or read, bytes: some 350,000 pictures. It is held in memory. */
export const LONGEST_MANIFEST = 64 * 1024 * 1024;

// A segment begins with a letter or digit, so it is neither `..` nor hidden, and holds nothing that a file system could read otherwise.
const SEGMENT = '[A-Za-z0-9][A-Za-z0-9._-]{0,254}';
const MEMBER_PATH = new RegExp(`^(?:plantroom\\.db|plantroom\\.pgdump|secrets\\.key(?:\\.next)?|plantroom\\.yaml|(?:media|tls)(?:/${SEGMENT}){1,8})$`);

const member = z.object({
  path: z.string().regex(MEMBER_PATH),
  bytes: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});

const manifestSchema = z.object({
  format: z.literal(BACKUP_FORMAT),
  createdAt: z.iso.datetime(),
  program: z.object({ version: z.string(), commit: z.string() }),
  schema: z.string(),
  engine: z.enum(['SQLite', 'PostgreSQL']),
  installationId: z.string(),
  members: z.array(member),
});

/** Whether a file of this path may be in a backup: relative, nowhere else than the files of a data folder lie. */
export function isMemberPath(path: string): boolean {
  return MEMBER_PATH.test(path);
}

/** The text of a manifest; a line for each member, for people who open a backup by hand. */
export function manifestText({ members, ...facts }: BackupManifest): string {
  const head = JSON.stringify(facts, undefined, 1).slice(0, -2);
  return `${head},\n "members": [${members.map((one) => `\n  ${JSON.stringify(one)}`).join(',')}\n ]\n}\n`;
}

/** Reads it. Throws `backup_not_one`, `backup_too_new`, `backup_damaged`. */
export function readManifestText(file: string, text: string): BackupManifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw damagedBackup(file, MANIFEST, 'is no JSON', error);
  }
  const format = z.object({ format: z.int().min(1) }).safeParse(value);
  if (!format.success) throw notBackup(file, `its ${MANIFEST} names no format`);
  if (format.data.format > BACKUP_FORMAT) throw backupTooNew(file, format.data.format, BACKUP_FORMAT);
  const manifest = manifestSchema.safeParse(value);
  if (!manifest.success) throw damagedBackup(file, MANIFEST, `says what no backup says (${manifest.error.issues[0]?.path.join('.') ?? ''})`);
  const twice = repeatedPath(manifest.data);
  if (twice !== undefined) throw damagedBackup(file, MANIFEST, `names ${twice} twice`);
  return manifest.data;
}

function repeatedPath({ members }: BackupManifest): string | undefined {
  const seen = new Set<string>();
  for (const { path } of members) {
    if (seen.has(path)) return path;
    seen.add(path);
  }
  return undefined;
}
