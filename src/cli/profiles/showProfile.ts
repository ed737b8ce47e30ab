import { DomainError } from '../../kernel/errors';
import { CodecRepository, type CodecFile, type CodecRole, type ProfileTemplate } from '../../profiles';
import { ROLE_WORDS } from '../codec/profilesReport';
import { withCore } from '../core';
import type { ConfigFlags } from '../options';
import { say, sayJson, showRecord } from '../output';
import { timeText } from '../people/timeText';
import { plainText } from '../plainText';

/** What `plantroom profiles show` is given. */
export interface ShowFlags extends ConfigFlags {
  readonly codec?: boolean;
  /** With `codec`: only the file that does this; absent: all as one script. */
  readonly role?: CodecRole;
}

/** `plantroom profiles show`. */
export async function runShow(id: string, flags: ShowFlags): Promise<void> {
  const { profile, devices, file } = await withCore(flags, async ({ database, profiles }) => {
    const [found, uses] = [await profiles.catalogue.get(id), await profiles.uses([id])];
    return { profile: found, devices: uses.get(id) ?? 0, file: flags.role && (await new CodecRepository(database.db).findScriptOfProfile(id, flags.role)) };
  });
  const { codec, createdAt, updatedAt, ...fields } = profile;
  if (flags.codec) return showCodec(profile, file, flags);
  const shown = { ...fields, devices, createdAt: timeText(createdAt), updatedAt: timeText(updatedAt) };
  if (flags.json) return showRecord({ ...shown, codec }, flags);
  const plain = Object.entries(shown).map(([name, value]) => [name, typeof value === 'string' ? plainText(value) : value]);
  showRecord({ ...Object.fromEntries(plain), codec: codec === '' ? '' : `${codec.length} characters; --codec shows them` }, flags);
}

/** All as one script, or of a role the very file that the server runs. */
function showCodec({ id, codec }: ProfileTemplate, file: CodecFile | null | undefined, { json, role }: ShowFlags): void {
  const missing = (what: string): DomainError => new DomainError('not_found', 'codec_not_found', `the profile ${JSON.stringify(id)} has no ${what}`);
  if (codec === '') throw missing('codec');
  if (role && !file) throw missing(`${ROLE_WORDS[role]}; without --role all that it has is shown`);
  if (json) return sayJson(file ? { id, role, file: file.name, codec: file.text } : { id, codec });
  const script = file?.text ?? codec;
  // The script is the vendor's: a terminal gets its lines, and nothing that would steer it.
  if (process.stdout.isTTY) say(script.split(/\r?\n/).map((line) => plainText(line, Infinity)).join('\n'));
  else process.stdout.write(file ? script : `${script}\n`);
}
