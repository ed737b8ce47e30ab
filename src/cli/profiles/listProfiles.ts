import type { AdminContext } from '../../server';
import type { ListedModel } from '../../profiles';
import { withAdminContext } from '../core';
import type { ConfigFlags } from '../options';
import { note, printJson, showTable } from '../output';
import { toPlainText } from '../plainText';

/** Flags of `plantroom profiles list`. */
export interface ListFlags extends ConfigFlags {
  readonly search?: string;
  readonly brand?: string;
  readonly model?: string;
  readonly band?: string;
  readonly ids?: boolean;
  readonly limit: number;
}

/** Profiles do not belong to an organization, but page tokens are bound to one. */
const INSTALLATION = '';

/** Runs `plantroom profiles list`. */
export async function runListProfiles(flags: ListFlags): Promise<void> {
  const { models, total } = await withAdminContext(
    flags,
    async ({ profiles }) => await fetchModels(profiles.catalogue, flags),
  );
  if (flags.json) return printJson(flags.ids ? models.flatMap(toProfileRows) : models);
  if (flags.ids)
    showTable(
      models.flatMap(toProfileRows).map(toPlainRow),
      ['id', 'macVersion', 'runtime', 'decodes', 'encodes'],
      flags,
    );
  else
    showTable(
      models.map(toModelRow).map(toPlainRow),
      ['brand', 'model', 'name', 'firmware', 'regions', 'source'],
      flags,
    );
  if (total > models.length)
    note(
      `${models.length} of ${total} models; use --limit ${total} to see all, or filter with --search, --brand, --model or --band`,
    );
}

/** Reads models page by page, at most `limit`. `total`: the number of all models that match. */
async function fetchModels(
  catalogue: AdminContext['profiles']['catalogue'],
  { search, brand, model, band, limit }: ListFlags,
): Promise<{ models: ListedModel[]; total: number }> {
  const models: ListedModel[] = [];
  let pageToken = '';
  for (;;) {
    const page = await catalogue.list(INSTALLATION, {
      search,
      brand,
      model,
      band,
      pageSize: limit - models.length,
      pageToken,
    });
    models.push(...page.models);
    pageToken = page.nextPageToken;
    if (pageToken === '' || models.length >= limit) return { models, total: page.total };
  }
}

/** Converts a model to a table row, with the firmware versions and regions of its profiles. */
function toModelRow({ brandId, modelId, modelName, firmwareVersions, source }: ListedModel) {
  const regions = new Set(firmwareVersions.flatMap(({ profiles }) => profiles.map(({ region }) => region)));
  return {
    brand: brandId,
    model: modelId,
    name: modelName,
    firmware: firmwareVersions.map(({ version }) => version),
    regions: [...regions].toSorted(),
    source,
  };
}

/** Converts a model to one table row per profile: each of its firmware versions has profiles per region. */
function toProfileRows({ firmwareVersions }: ListedModel) {
  return firmwareVersions.flatMap(({ profiles }) =>
    profiles.map(({ id, region, macVersion, payloadCodecRuntime, decodesUplinks, encodesDownlinks }) => ({
      id,
      region,
      macVersion,
      runtime: payloadCodecRuntime,
      decodes: decodesUplinks,
      encodes: encodesDownlinks,
    })),
  );
}

/** Escapes all texts of a row, because names come from third-party files. */
function toPlainRow<Row extends object>(row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, toPlainValue(value)])) as Row;
}

function toPlainValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toPlainValue);
  return typeof value === 'string' ? toPlainText(value, 80) : value;
}
