import { z } from 'zod';
import { BACKUP_FORMAT, MANIFEST, type BackupManifest } from './manifest';
import { backupVersionUnsupported, backupCorrupt, backupInvalid } from './backupErrors';

/** The maximum size of a manifest, in bytes: about 350,000 images. It is held in memory. */
export const MAX_MANIFEST_BYTES = 64 * 1024 * 1024;

// A segment starts with a letter or digit, so it is neither `..` nor hidden, and contains no special characters of
// file systems.
const SEGMENT = '[A-Za-z0-9][A-Za-z0-9._-]{0,254}';
const MEMBER_PATH = new RegExp(
  `^(?:plantroom\\.db|plantroom\\.pgdump|secrets\\.key(?:\\.next)?|plantroom\\.yaml|(?:media|tls)(?:/${SEGMENT}){1,8})$`,
);

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

/** Whether a file with this path may be in a backup: relative, and in one of the places of data folder files. */
export function isMemberPath(path: string): boolean {
  return MEMBER_PATH.test(path);
}

/** Formats a manifest with a line for each entry, for people who open a backup manually. */
export function formatManifest({ members, ...header }: BackupManifest): string {
  const head = JSON.stringify(header, undefined, 1).slice(0, -2); // without the line break and brace at its end
  return `${head},\n "members": [${members.map((member) => `\n  ${JSON.stringify(member)}`).join(',')}\n ]\n}\n`;
}

/** Parses a manifest. Throws `backup_invalid`, `backup_version_unsupported`, `backup_corrupt`. */
export function parseManifest(file: string, text: string): BackupManifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw backupCorrupt(file, MANIFEST, 'is not JSON', error);
  }
  const format = z.object({ format: z.int().min(1) }).safeParse(value);
  if (!format.success) throw backupInvalid(file, `its ${MANIFEST} has no format`);
  if (format.data.format > BACKUP_FORMAT) throw backupVersionUnsupported(file, format.data.format, BACKUP_FORMAT);
  const manifest = manifestSchema.safeParse(value);
  if (!manifest.success)
    throw backupCorrupt(file, MANIFEST, `has an invalid value (${manifest.error.issues[0]?.path.join('.') ?? ''})`);
  const duplicate = findDuplicatePath(manifest.data);
  if (duplicate !== undefined) throw backupCorrupt(file, MANIFEST, `lists ${duplicate} twice`);
  return manifest.data;
}

/** Returns the first path that occurs twice; undefined: none. */
function findDuplicatePath({ members }: BackupManifest): string | undefined {
  const seen = new Set<string>();
  for (const { path } of members) {
    if (seen.has(path)) return path;
    seen.add(path);
  }
  return undefined;
}
