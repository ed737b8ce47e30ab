import type { Core } from '../../app';
import type { ListedModel } from '../../profiles';
import { withCore } from '../core';
import type { ConfigFlags } from '../options';
import { note, sayJson, showTable } from '../output';
import { plainText } from '../plainText';

/** What `plantroom profiles list` is given. */
export interface ListFlags extends ConfigFlags {
  readonly search?: string;
  readonly brand?: string;
  readonly model?: string;
  readonly band?: string;
  readonly ids?: boolean;
  readonly limit: number;
}

/** The list belongs to no organization; page tokens are bound to one. */
const INSTALLATION = '';

/** `plantroom profiles list`. */
export async function runList(flags: ListFlags): Promise<void> {
  const { models, total } = await withCore(flags, async ({ profiles }) => await modelsOf(profiles.catalogue, flags));
  if (flags.json) return sayJson(flags.ids ? models.flatMap(profilesOf) : models);
  if (flags.ids) showTable(models.flatMap(profilesOf).map(plain), ['id', 'macVersion', 'runtime', 'decodes', 'encodes'], flags);
  else showTable(models.map(modelRow).map(plain), ['brand', 'model', 'name', 'firmware', 'regions', 'source'], flags);
  if (total > models.length) note(`${models.length} of ${total} models; --limit ${total} shows all, --search, --brand, --model and --band fewer`);
}

async function modelsOf(catalogue: Core['profiles']['catalogue'], { search, brand, model, band, limit }: ListFlags): Promise<{ models: ListedModel[]; total: number }> {
  const models: ListedModel[] = [];
  for (let pageToken = ''; ; ) {
    const page = await catalogue.list(INSTALLATION, { search, brand, model, band, pageSize: limit - models.length, pageToken });
    models.push(...page.models);
    pageToken = page.nextPageToken;
    if (pageToken === '' || models.length >= limit) return { models, total: page.total };
  }
}

function modelRow({ brandId, modelId, modelName, firmwareVersions, source }: ListedModel) {
  const regions = new Set(firmwareVersions.flatMap(({ profiles }) => profiles.map(({ region }) => region)));
  return { brand: brandId, model: modelId, name: modelName, firmware: firmwareVersions.map(({ version }) => version), regions: [...regions].toSorted(), source };
}

function profilesOf({ firmwareVersions }: ListedModel) {
  return firmwareVersions.flatMap(({ profiles }) => profiles.map(({ id, region, macVersion, payloadCodecRuntime, decodesUplinks, encodesDownlinks }) => ({ id, region, macVersion, runtime: payloadCodecRuntime, decodes: decodesUplinks, encodes: encodesDownlinks })));
}

/** Names come from files that somebody else wrote. */
function plain<Row extends object>(row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, plainValue(value)])) as Row;
}

function plainValue(value: unknown): unknown {
  return typeof value === 'string' ? plainText(value, 80) : Array.isArray(value) ? value.map(plainValue) : value;
}
