import { posix } from 'node:path';
import type { CodecExamples, CodecRole } from '../profile';
import { readExamples } from './examples';
import type { ImportWarnings } from './importWarnings';
import type { ReadCodec } from './readVendor';
import { MAX_EXAMPLES_BYTES } from './sandboxedDirectory';
import { detectRoles } from './scriptRoles';
import type { FileResult, VendorFiles } from './vendorFiles';

/** Reads a codec of chirpstack-device-profiles: a script that may have all roles, and the example files next to it. */
export function readChirpStackCodec(
  files: VendorFiles,
  path: string,
  warnings: ImportWarnings,
): FileResult<Omit<ReadCodec, 'name'>> {
  const script = files.readScript(path);
  if ('problem' in script) return script;
  const scripts = detectRoles(script.value);
  if (!scripts.encoder && !scripts.decoder && !scripts.downlinkDecoder)
    return {
      problem: { file: path, reason: 'defines neither encodeDownlink nor decodeUplink, nor an older name of them' },
    };
  const examples = [
    listExamples(files, path, 'decoder', warnings),
    listExamples(files, path, 'encoder', warnings),
  ].flat();
  const unusedExamples = examples.find(({ role }) => !scripts[role]);
  if (unusedExamples)
    warnings.add(
      unusedExamples.file,
      `has examples for functions that ${posix.basename(path)} does not define; they are not used`,
    );
  return { value: { scripts, examples: examples.filter(({ role }) => scripts[role]) } };
}

/** Reads the example file of a script and a role; empty if it does not exist or is unusable. */
function listExamples(files: VendorFiles, script: string, role: CodecRole, warnings: ImportWarnings): CodecExamples[] {
  const file = posix.join(
    posix.dirname(script),
    `test_${role === 'decoder' ? 'decode' : 'encode'}_${posix.basename(script, '.js')}.json`,
  );
  const text = files.readText(file, MAX_EXAMPLES_BYTES);
  if ('problem' in text) {
    if (!text.isMissing) warnings.add(file, `${text.problem.reason}; these examples are not used`);
    return [];
  }
  const items = readExamples(text.value);
  if ('problem' in items) warnings.add(file, `${items.problem}; these examples are not used`);
  return 'value' in items && items.value.length > 0 ? [{ role, file, items: items.value }] : [];
}
