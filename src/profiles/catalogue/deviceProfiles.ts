import type { Database } from '../../database';
import { DomainError, validationFailed } from '../../kernel/errors';
import { pageOf, pageSize, type Cursors } from '../../kernel/pages';
import { shortened } from '../../kernel/shortened';
import { foldSpelling } from '../import/spellings';
import { findRegion, REGIONS, servingRegions } from '../regions';
import { bestProfile } from './bestProfile';
import type { ModelPage, ModelQuery, ProfileQuery, ProfileTemplate } from './catalogue';
import { listedModels } from './listedModels';
import { ModelListRepository, type ModelFilter, type ModelPosition, type ModelRow } from './modelListRepository';
import { NearRepository } from './nearRepository';
import { notFoundBy } from './notFound';
import { ProfileRepository } from './profileRepository';

/** A page ends before it shows more profiles, however few models that are: the server would stand still while it makes the answer. */
const MOST_PROFILES = 1000;
/** Each is looked for in every model. */
const MOST_WORDS = 10;

/** The profiles that were imported. */
export class DeviceProfiles {
  private readonly profiles: ProfileRepository;
  private readonly near: NearRepository;
  private readonly models: ModelListRepository;

  /** Without `cursors`, lists give no tokens out, and take none. */
  constructor(private readonly options: { readonly database: Database; readonly cursors?: Cursors }) {
    const { db } = options.database;
    this.profiles = new ProfileRepository(db);
    this.near = new NearRepository(db);
    this.models = new ModelListRepository(db);
  }

  /** Looks a profile up; a blank firmware version is none. Throws `profile_not_found`, naming up to five near ones. */
  async find(asked: ProfileQuery): Promise<ProfileTemplate> {
    const query = { ...asked, firmwareVersion: asked.firmwareVersion?.trim() || undefined };
    const [brand, model] = [foldSpelling(query.brand), foldSpelling(query.model)];
    const region = findRegion(query.band);
    for (;;) {
      const candidates = await this.profiles.candidates(brand, model);
      const best = region && bestProfile(candidates, { region, firmwareVersion: query.firmwareVersion });
      if (!best) throw await notFoundBy(this.near, { query, brand, model, candidates });
      const profile = await this.profiles.find(best.id);
      if (profile) return { ...profile, region };
      // It was removed in between.
    }
  }

  /** By id. Throws `profile_not_found`. */
  async get(id: string): Promise<ProfileTemplate> {
    const profile = await this.profiles.find(id);
    if (!profile) throw new DomainError('not_found', 'profile_not_found', `no profile ${JSON.stringify(shortened(id, 160))} was imported; ListDeviceProfiles shows those that were`, { metadata: { profile_id: id } });
    return profile;
  }

  /** Models by brand and name. Throws `validation_failed` for a token that this list did not give out, for a band that is none, and for more than MOST_WORDS words. */
  async list(organizationId: string, query: ModelQuery): Promise<ModelPage> {
    const filter = filterOf(query);
    const list = [organizationId, 'profiles', filter.words.join(' '), filter.brand, filter.model, ...(filter.regions ?? [])];
    const after = this.position(list, query.pageToken);
    const size = pageSize(query.pageSize);
    const [rows, total] = [await this.models.page(filter, after, size + 1), await this.models.total(filter)];
    const page = pageOf(rows, Math.min(size, await this.shownAtOnce(rows, filter.regions)), positionOf);
    const profiles = await this.models.profilesOf(page.items.map(({ id }) => id), filter.regions);
    return { models: listedModels(page.items, profiles), total, nextPageToken: page.next && this.options.cursors ? this.options.cursors.encode(list, page.next) : '' };
  }

  /** How many of the first models have no more than MOST_PROFILES together; at least one. */
  private async shownAtOnce(rows: readonly ModelRow[], regions: ModelFilter['regions']): Promise<number> {
    const counts = await this.models.profileCounts(rows.map(({ id }) => id), regions);
    let sum = 0;
    const tooMany = rows.findIndex(({ id }) => (sum += counts.get(id) ?? 0) > MOST_PROFILES);
    return tooMany === -1 ? rows.length : Math.max(1, tooMany);
  }

  private position(list: readonly string[], token: string): ModelPosition | undefined {
    const { cursors } = this.options;
    if (!cursors && token !== '') throw validationFailed([{ field: 'pageToken', description: 'is given to a list that is not shown page by page; leave it out' }]);
    return cursors?.decode<ModelPosition>(list, token, 'pageToken');
  }
}

function filterOf({ search, brand, model, band }: ModelQuery): ModelFilter {
  const asked = band?.trim();
  const region = asked ? findRegion(asked) : undefined;
  if (asked && !region) throw validationFailed([{ field: 'band', description: `is no band of LoRaWAN; give one of ${REGIONS.join(', ')}, also spelled as EU863-870 or EU_863_870` }]);
  return { words: wordsOf(search ?? ''), brand: foldSpelling(brand ?? ''), model: foldSpelling(model ?? ''), regions: region && servingRegions(region) };
}

/** The words of a search, each once; the longest first, because they are in the fewest models. */
function wordsOf(search: string): string[] {
  const words = new Set(foldSpelling(search).split(/\s+/).filter((word) => word !== ''));
  if (words.size > MOST_WORDS) throw validationFailed([{ field: 'search', description: `has ${words.size} words; give at most ${MOST_WORDS}` }]);
  return [...words].toSorted((a, b) => b.length - a.length);
}

function positionOf({ brand_folded: brandFolded, model_folded: modelFolded, id }: ModelRow): ModelPosition {
  return { brandFolded, modelFolded, id };
}
