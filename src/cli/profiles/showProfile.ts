import { DomainError } from '../../kernel/errors';
import { CodecRepository, type CodecFile, type CodecRole, type ProfileTemplate } from '../../profiles';
import { ROLE_NAMES } from '../codec/profilesReport';
import { withAdminContext } from '../core';
import type { ConfigFlags } from '../options';
import { print, printJson, showRecord } from '../output';
import { formatTime } from '../people/timeText';
import { toPlainText } from '../plainText';

/** Flags of `plantroom profiles show`. */
export interface ShowFlags extends ConfigFlags {
  readonly codec?: boolean;
  /** With `codec`: only the file for this role; undefined: the whole codec as one script. */
  readonly role?: CodecRole;
}

/** Runs `plantroom profiles show`. */
export async function runShow(id: string, flags: ShowFlags): Promise<void> {
  const { profile, devices, file } = await withAdminContext(flags, async ({ database, profiles }) => {
    const found = await profiles.catalogue.get(id);
    const uses = await profiles.countUses([id]);
    return {
      profile: found,
      devices: uses.get(id) ?? 0,
      file: flags.role && (await new CodecRepository(database.db).findScriptOfProfile(id, flags.role)),
    };
  });
  const { codec, createdAt, updatedAt, ...fields } = profile;
  if (flags.codec) return showCodec(profile, file, flags);
  const shown = { ...fields, devices, createdAt: formatTime(createdAt), updatedAt: formatTime(updatedAt) };
  if (flags.json) return showRecord({ ...shown, codec }, flags);
  const plain = Object.entries(shown).map(([name, value]) => [
    name,
    typeof value === 'string' ? toPlainText(value) : value,
  ]);
  showRecord(
    {
      ...Object.fromEntries(plain),
      codec: codec === '' ? '' : `${codec.length} characters; use --codec to print them`,
    },
    flags,
  );
}

/** Prints the whole codec as one script, or exactly the file that the server runs for a role. */
function showCodec(
  { id, codec }: ProfileTemplate,
  file: CodecFile | null | undefined,
  { json, role }: ShowFlags,
): void {
  const codecNotFound = (what: string): DomainError =>
    new DomainError('not_found', 'codec_not_found', `profile ${JSON.stringify(id)} has no ${what}`);
  if (codec === '') throw codecNotFound('codec');
  if (role && !file) throw codecNotFound(`${ROLE_NAMES[role]}; omit --role to see the complete codec`);
  if (json) return printJson(file ? { id, role, file: file.name, codec: file.text } : { id, codec });
  const script = file?.text ?? codec;
  // The script is third-party text: on a terminal, control characters are escaped.
  if (process.stdout.isTTY)
    print(
      script
        .split(/\r?\n/)
        .map((line) => toPlainText(line, Infinity))
        .join('\n'),
    );
  else process.stdout.write(file ? script : `${script}\n`);
}
