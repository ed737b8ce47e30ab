import { posix } from 'node:path';
import { CODEC_ROLES, type CodecExamples, type CodecFile, type CodecRole } from '../profile';
import { parseExampleItems } from './examples';
import { findFileName, isTable, getField, type Table } from './fields';
import type { ImportWarnings } from './importWarnings';
import { readYaml } from '../../kernel/readYaml';
import type { ReadCodec } from './readVendor';
import type { FileResult, VendorFiles } from './vendorFiles';

const FIELDS: Readonly<Record<CodecRole, string>> = {
  encoder: 'downlinkEncoder',
  decoder: 'uplinkDecoder',
  downlinkDecoder: 'downlinkDecoder',
};

/**
 * Reads a codec of lorawan-devices: the script for each role, and the examples. If one script cannot be read, the codec
 * is not imported.
 */
export function readLorawanDevicesCodec(
  files: VendorFiles,
  path: string,
  warnings: ImportWarnings,
): FileResult<Omit<ReadCodec, 'name'>> {
  const table = files.readTable(path, (text) => readYaml(text, 'values'));
  if ('problem' in table) return table;
  const scripts: Record<CodecRole, CodecFile | undefined> = {
    encoder: undefined,
    decoder: undefined,
    downlinkDecoder: undefined,
  };
  const examples: CodecExamples[] = [];
  for (const role of CODEC_ROLES) {
    const part = getField(table.value, FIELDS[role]);
    if (part === undefined || part === null) continue;
    const script = readScript(files, path, part, FIELDS[role]);
    if ('problem' in script) return script;
    scripts[role] = script.value;
    examples.push(...listExamples(part as Table, role, path, warnings)); // a table, because it names a script
  }
  if (!Object.values(scripts).some(Boolean))
    return {
      problem: { file: path, reason: `names no script; set at least one of ${Object.values(FIELDS).join(', ')}` },
    };
  return { value: { scripts, examples } };
}

/** Reads the script that a role names. */
function readScript(files: VendorFiles, path: string, part: unknown, field: string): FileResult<CodecFile> {
  const name = isTable(part) ? findFileName(getField(part, 'fileName')) : undefined;
  if (name === undefined) return { problem: { file: path, reason: `has ${field} without the fileName of its script` } };
  const script = files.resolvePath(posix.dirname(path), name, path);
  return 'problem' in script ? script : files.readScript(script.value);
}

/** Reads the examples of a role; unusable ones are only a warning. */
function listExamples(part: Table, role: CodecRole, file: string, warnings: ImportWarnings): CodecExamples[] {
  const examples = getField(part, 'examples');
  if (examples === undefined || examples === null) return [];
  const items = parseExampleItems(examples);
  if ('problem' in items) warnings.add(file, `has unusable examples under ${FIELDS[role]}: it ${items.problem}`);
  return 'value' in items && items.value.length > 0 ? [{ role, file, items: items.value }] : [];
}
