import { posix } from 'node:path';
import { CODEC_ROLES, type CodecExamples, type CodecFile, type CodecRole } from '../profile';
import { exampleItems } from './examples';
import { fileNameOf, isTable, member, type Table } from './fields';
import type { ImportWarnings } from './importWarnings';
import { readYaml } from './readYaml';
import type { ReadCodec } from './readVendor';
import type { Found, VendorFiles } from './vendorFiles';

const FIELDS: Readonly<Record<CodecRole, string>> = { encoder: 'downlinkEncoder', decoder: 'uplinkDecoder', downlinkDecoder: 'downlinkDecoder' };

/** Reads a codec of lorawan-devices: which script does what, and its examples. A script that cannot be read costs the codec. */
export function lorawanDevicesCodec(files: VendorFiles, path: string, warnings: ImportWarnings): Found<Omit<ReadCodec, 'name'>> {
  const table = files.table(path, (text) => readYaml(text, 'values'));
  if ('problem' in table) return table;
  const scripts: Record<CodecRole, CodecFile | undefined> = { encoder: undefined, decoder: undefined, downlinkDecoder: undefined };
  const examples: CodecExamples[] = [];
  for (const role of CODEC_ROLES) {
    const part = member(table.value, FIELDS[role]);
    if (part === undefined || part === null) continue;
    const script = scriptOf(files, path, part, FIELDS[role]);
    if ('problem' in script) return script;
    scripts[role] = script.value;
    examples.push(...examplesOf(part as Table, role, path, warnings));
  }
  if (!Object.values(scripts).some(Boolean)) return { problem: { file: path, reason: `names no script; give ${Object.values(FIELDS).join(', ')} or some of them` } };
  return { value: { scripts, examples } };
}

function scriptOf(files: VendorFiles, path: string, part: unknown, field: string): Found<CodecFile> {
  const name = isTable(part) ? fileNameOf(member(part, 'fileName')) : undefined;
  if (name === undefined) return { problem: { file: path, reason: `has ${field} without the fileName of its script` } };
  const script = files.path(posix.dirname(path), name, path);
  return 'problem' in script ? script : files.script(script.value);
}

function examplesOf(part: Table, role: CodecRole, file: string, warnings: ImportWarnings): CodecExamples[] {
  const given = member(part, 'examples');
  if (given === undefined || given === null) return [];
  const items = exampleItems(given);
  if ('problem' in items) warnings.add(file, `has under ${FIELDS[role]} examples which cannot be used: it ${items.problem}`);
  return 'value' in items && items.value.length > 0 ? [{ role, file, items: items.value }] : [];
}
