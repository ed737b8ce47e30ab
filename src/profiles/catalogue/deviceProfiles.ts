import type { Database } from '../../database';
import { DomainError, validationFailed } from '../../kernel/errors';
import { getPage, getPageSize, type Cursors } from '../../kernel/pages';
import { truncateForDisplay } from '../../kernel/truncate';
import { foldName } from '../import/aliases';
import { findRegion, REGIONS, listServingRegions } from '../regions';
import { selectBestProfile } from './bestProfile';
import type { ModelPage, ModelQuery, ProfileQuery, ProfileTemplate } from './catalogue';
import { buildListedModels } from './listedModels';
import { ModelListRepository, type ModelFilter, type ModelPosition, type ModelRow } from './modelListRepository';
import { SuggestionRepository } from './suggestionRepository';
import { noProfileMatches } from './notFound';
import { ProfileRepository } from './profileRepository';

/**
 * The maximum number of profiles of all models of a page. A page has fewer models than requested if they have more
 * profiles. Larger responses would block the event loop.
 */
const MAX_PROFILES_PER_PAGE = 1000;
/** The maximum number of search words. Every word is matched against every model. */
const MAX_SEARCH_WORDS = 10;

/** Finds and lists imported device profiles. */
export class DeviceProfiles {
  private readonly profiles: ProfileRepository;
  private readonly suggestions: SuggestionRepository;
  private readonly models: ModelListRepository;

  /** Without `cursors`, lists return no page tokens and reject page tokens. */
  constructor(private readonly options: { readonly database: Database; readonly cursors?: Cursors }) {
    const { db } = options.database;
    this.profiles = new ProfileRepository(db);
    this.suggestions = new SuggestionRepository(db);
    this.models = new ModelListRepository(db);
  }

  /**
   * Finds a profile by brand, model, band and firmware version. A blank firmware version counts as absent. Throws
   * `profile_not_found`, which names up to five similar profiles, models or brands.
   */
  async find(request: ProfileQuery): Promise<ProfileTemplate> {
    const query = { ...request, firmwareVersion: request.firmwareVersion?.trim() || undefined };
    const brand = foldName(query.brand);
    const model = foldName(query.model);
    const region = findRegion(query.band);
    for (;;) {
      const candidates = await this.profiles.listCandidates(brand, model);
      const best = region && selectBestProfile(candidates, { region, firmwareVersion: query.firmwareVersion });
      if (!best) throw await noProfileMatches(this.suggestions, { query, brand, model, candidates });
      const profile = await this.profiles.find(best.id);
      if (profile) return { ...profile, region };
      // The profile was removed in between: search again.
    }
  }

  /** Gets a profile by id. Throws `profile_not_found`. */
  async get(id: string): Promise<ProfileTemplate> {
    const profile = await this.profiles.find(id);
    if (!profile)
      throw new DomainError(
        'not_found',
        'profile_not_found',
        `device profile ${JSON.stringify(truncateForDisplay(id, 160))} not found; ListDeviceProfiles lists the imported profiles`,
        { metadata: { profile_id: id } },
      );
    return profile;
  }

  /**
   * Lists models with their profiles in the order of brand and name. A page has at most MAX_PROFILES_PER_PAGE profiles,
   * so it may have fewer models than requested. Throws `validation_failed` for a page token of another list, for an
   * unknown band, and for more than MAX_SEARCH_WORDS search words.
   */
  async list(organizationId: string, query: ModelQuery): Promise<ModelPage> {
    const filter = toFilter(query);
    const listKey = [
      organizationId,
      'profiles',
      filter.words.join(' '),
      filter.brand,
      filter.model,
      ...(filter.regions ?? []),
    ];
    const after = this.decodePosition(listKey, query.pageToken);
    const requestedSize = getPageSize(query.pageSize);
    // One more shows whether there is a next page.
    const rows = await this.models.listPage(filter, after, requestedSize + 1);
    const total = await this.models.count(filter);
    const size = Math.min(requestedSize, await this.countModelsWithinProfileLimit(rows, filter.regions));
    const page = getPage(rows, size, getPosition);
    const profiles = await this.models.listProfiles(
      page.items.map(({ id }) => id),
      filter.regions,
    );
    return {
      models: buildListedModels(page.items, profiles),
      total,
      nextPageToken: page.next && this.options.cursors ? this.options.cursors.encode(listKey, page.next) : '',
    };
  }

  /**
   * Counts how many of the first models together have at most MAX_PROFILES_PER_PAGE profiles; at least one, so that a
   * page is never empty.
   */
  private async countModelsWithinProfileLimit(
    rows: readonly ModelRow[],
    regions: ModelFilter['regions'],
  ): Promise<number> {
    const profileCountByModel = await this.models.countProfiles(
      rows.map(({ id }) => id),
      regions,
    );
    let profileCount = 0;
    for (const [index, { id }] of rows.entries()) {
      profileCount += profileCountByModel.get(id) ?? 0;
      if (profileCount > MAX_PROFILES_PER_PAGE) return Math.max(1, index); // `index` models come before this one
    }
    return rows.length;
  }

  /** Decodes a page token; undefined for the first page. `listKey`: identifies the list and its filters. */
  private decodePosition(listKey: readonly string[], token: string): ModelPosition | undefined {
    const { cursors } = this.options;
    if (!cursors && token !== '')
      throw validationFailed([
        { field: 'pageToken', description: 'is not supported: this list is not paged; omit it' },
      ]);
    return cursors?.decode<ModelPosition>(listKey, token, 'pageToken');
  }
}

/** Converts a query to filters. Throws `validation_failed` for an unknown band or too many search words. */
function toFilter({ search, brand, model, band }: ModelQuery): ModelFilter {
  const bandName = band?.trim();
  const region = bandName ? findRegion(bandName) : undefined;
  if (bandName && !region)
    throw validationFailed([
      {
        field: 'band',
        description: `is not a LoRaWAN band: use one of ${REGIONS.join(', ')} (EU863-870 and EU_863_870 are also valid)`,
      },
    ]);
  return {
    words: splitSearch(search ?? ''),
    brand: foldName(brand ?? ''),
    model: foldName(model ?? ''),
    regions: region && listServingRegions(region),
  };
}

/** Splits a search into words without duplicates, the longest first, because long words match the fewest models. */
function splitSearch(search: string): string[] {
  const words = new Set(
    foldName(search)
      .split(/\s+/)
      .filter((word) => word !== ''),
  );
  if (words.size > MAX_SEARCH_WORDS)
    throw validationFailed([
      { field: 'search', description: `must have at most ${MAX_SEARCH_WORDS} words (got ${words.size})` },
    ]);
  return [...words].toSorted((a, b) => b.length - a.length);
}

/** Returns the position of a model, after which the next page starts. */
function getPosition({ brand_folded: brandFolded, model_folded: modelFolded, id }: ModelRow): ModelPosition {
  return { brandFolded, modelFolded, id };
}
