import { posix } from 'node:path';
import type { CodecExamples, CodecRole } from '../profile';
import { readExamples } from './examples';
import type { ImportWarnings } from './importWarnings';
import type { ReadCodec } from './readVendor';
import { LARGEST_EXAMPLES } from './safeFolder';
import { rolesOf } from './scriptRoles';
import type { Found, VendorFiles } from './vendorFiles';

/** Reads a codec of chirpstack-device-profiles: a script that may do all, and the files of examples beside it. */
export function chirpStackCodec(files: VendorFiles, path: string, warnings: ImportWarnings): Found<Omit<ReadCodec, 'name'>> {
  const script = files.script(path);
  if ('problem' in script) return script;
  const scripts = rolesOf(script.value);
  if (!scripts.encoder && !scripts.decoder && !scripts.downlinkDecoder) return { problem: { file: path, reason: 'defines neither encodeDownlink nor decodeUplink, nor one of their older forms' } };
  const examples = [examplesOf(files, path, 'decoder', warnings), examplesOf(files, path, 'encoder', warnings)].flat();
  const lost = examples.find(({ role }) => !scripts[role]);
  if (lost) warnings.add(lost.file, `has examples for functions that ${posix.basename(path)} does not define; they are not used`);
  return { value: { scripts, examples: examples.filter(({ role }) => scripts[role]) } };
}

function examplesOf(files: VendorFiles, script: string, role: CodecRole, warnings: ImportWarnings): CodecExamples[] {
  const file = posix.join(posix.dirname(script), `test_${role === 'decoder' ? 'decode' : 'encode'}_${posix.basename(script, '.js')}.json`);
  const text = files.text(file, LARGEST_EXAMPLES);
  if ('problem' in text) {
    if (!text.isMissing) warnings.add(file, `${text.problem.reason}; these examples are not used`);
    return [];
  }
  const items = readExamples(text.value);
  if ('problem' in items) warnings.add(file, `${items.problem}; these examples are not used`);
  return 'value' in items && items.value.length > 0 ? [{ role, file, items: items.value }] : [];
}
