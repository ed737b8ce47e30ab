import { DomainError } from '../../kernel/errors';
import { withCore } from '../core';
import type { ConfigFlags } from '../options';
import { say, showRecord } from '../output';
import { timeText } from '../people/timeText';
import { plainText } from '../plainText';

/** What `plantroom profiles show` is given. */
export interface ShowFlags extends ConfigFlags {
  readonly codec?: boolean;
}

/** `plantroom profiles show`. */
export async function runShow(id: string, flags: ShowFlags): Promise<void> {
  const { profile, devices } = await withCore(flags, async ({ profiles }) => ({ profile: await profiles.catalogue.get(id), devices: (await profiles.uses([id])).get(id) ?? 0 }));
  const { codec, createdAt, updatedAt, ...fields } = profile;
  if (flags.codec) return showCodec(id, codec, flags);
  const shown = { ...fields, devices, createdAt: timeText(createdAt), updatedAt: timeText(updatedAt) };
  if (flags.json) return showRecord({ ...shown, codec }, flags);
  const plain = Object.entries(shown).map(([name, value]) => [name, typeof value === 'string' ? plainText(value) : value]);
  showRecord({ ...Object.fromEntries(plain), codec: codec === '' ? '' : `${codec.length} characters; --codec shows them` }, flags);
}

/** The script is the vendor's: a terminal gets its lines, and nothing that would steer it. */
function showCodec(id: string, codec: string, { json }: ShowFlags): void {
  if (codec === '') throw new DomainError('not_found', 'codec_not_found', `the profile ${JSON.stringify(id)} has no codec`);
  if (json) return say(JSON.stringify({ id, codec }));
  say(process.stdout.isTTY ? codec.split(/\r?\n/).map((line) => plainText(line, Infinity)).join('\n') : codec);
}
