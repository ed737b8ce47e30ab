import { writeFile } from 'node:fs/promises';
import { UsageError } from '../exit';
import { escapeJson, note } from '../output';
import { findDashboard, withClient } from './dashboardClient';
import { formatDocument, omitDefaults } from './documentText';
import { isJson, type DashboardFlags } from './format';

/** Flags of `plantroom dashboards export`. */
export interface ExportFlags extends DashboardFlags {
  readonly output: 'yaml' | 'json';
}

/** Runs `plantroom dashboards export`. */
export async function runExport(nameOrId: string, file: string | undefined, flags: ExportFlags): Promise<void> {
  await withClient(flags, async (client) => {
    const { id } = await findDashboard(client, nameOrId);
    const document = omitDefaults(await client.call('DashboardService/ExportDashboard', { id }));
    const text = isJson(flags) ? `${escapeJson(JSON.stringify(document, undefined, 2))}\n` : formatDocument(document);
    if (file === undefined) {
      process.stdout.write(text);
      return;
    }
    await writeDocument(file, text);
    note(`plantroom: exported to ${file}`);
  });
}

async function writeDocument(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text);
  } catch (error) {
    throw new UsageError(
      `${file} cannot be written (${(error as NodeJS.ErrnoException).code ?? 'unknown'}): choose a file in a folder that exists and is writable`,
      { cause: error },
    );
  }
}
