import { formatCodecError, type Sandbox } from '../../codec';
import type { ImportWarning, ReadVendor } from '../../profiles';

/** Returns a warning, with the line, for each script of a vendor that cannot be compiled. */
export async function findCodecWarnings(
  sandbox: Pick<Sandbox, 'compile'>,
  { id, codecs }: Pick<ReadVendor, 'id' | 'codecs'>,
): Promise<ImportWarning[]> {
  const files = codecs.flatMap(({ scripts }) => Object.values(scripts)).filter((file) => file !== undefined);
  const nameByText = new Map(files.map(({ name, text }) => [text, name]));
  const warnings: ImportWarning[] = [];
  for (const [text, name] of nameByText) {
    const error = await sandbox.compile('profiles import', text);
    if (error?.code !== 'syntax_error') continue;
    const reason = `cannot be compiled: ${formatCodecError(error)}. The profiles are imported, but this script cannot run`;
    warnings.push({ file: `${id}/${name}`, reason });
  }
  return warnings;
}
