import { createReadStream } from 'node:fs';
import { isObject } from '../../kernel/jsonValue';
import { readYaml } from '../../kernel/readYaml';
import type { Json } from '../call/jsonClient';
import { UsageError } from '../exit';

/** More than the server accepts. */
const MAX_DOCUMENT_BYTES = 1024 * 1024;

/** A document that was read from a file. */
export interface DocumentFile {
  /** How messages name it. */
  readonly name: string;
  readonly text: string;
  readonly document: Json;
}

/** Reads a document, YAML or JSON; `-`: from stdin. Throws UsageError with the line of a syntax error. */
export async function readDocumentFile(file: string): Promise<DocumentFile> {
  const name = file === '-' ? 'stdin' : file;
  const text = await readText(file, name);
  const parsed = readYaml(text, 'values'); // JSON is YAML too
  if ('problem' in parsed) throw new UsageError(`${name} ${parsed.problem}`);
  if (!isObject(parsed.value))
    throw new UsageError(`${name} is not an exported dashboard: use the output of \`plantroom dashboards export\``);
  return { name, text, document: parsed.value };
}

async function readText(file: string, name: string): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of file === '-' ? process.stdin : createReadStream(file)) {
      bytes += (chunk as Buffer).length;
      if (bytes > MAX_DOCUMENT_BYTES)
        throw new UsageError(`${name} is larger than 1 MiB: the content of a dashboard has at most 512 KiB`);
      chunks.push(chunk as Buffer);
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(
      `${name} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'}): use the path of a readable file, or - for stdin`,
      { cause: error },
    );
  }
  return Buffer.concat(chunks).toString();
}
