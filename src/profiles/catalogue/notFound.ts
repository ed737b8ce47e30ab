import { DomainError } from '../../kernel/errors';
import { truncateForDisplay } from '../../kernel/truncate';
import { findRegion, REGIONS, servesRegion } from '../regions';
import { selectBestMatches } from './bestProfile';
import type { ProfileQuery } from './catalogue';
import { normalizeName, computeDistance } from './similarity';
import type { NamedModel, SuggestionRepository, AliasedModel } from './suggestionRepository';
import { sortNewestFirst } from './newestFirst';
import type { Candidate } from './profileRepository';
import { compareTexts } from './versions';

const MAX_LISTED_NAMES = 5;
const MAX_SHOWN_LENGTH = 80;

/**
 * A look-up without a result: the query, its folded brand and model, and the profiles of the models that have these
 * names.
 */
interface NotFoundCause {
  readonly query: ProfileQuery;
  readonly brand: string;
  readonly model: string;
  readonly candidates: readonly Candidate[];
}

/**
 * Creates the error `profile_not_found` for a look-up. The message names the field that does not match and up to five
 * similar names.
 */
export async function noProfileMatches(repository: SuggestionRepository, cause: NotFoundCause): Promise<DomainError> {
  if (cause.candidates.length > 0) return variantNotFound(cause);
  const models = await repository.findModelsNear(cause.brand, cause.model);
  return models.length === 0 ? await brandNotFound(repository, cause) : modelNotFound(cause, models);
}

/** Creates the error for a known model that has no profile for the firmware version or the band. */
function variantNotFound({ query, candidates }: NotFoundCause): DomainError {
  const region = findRegion(query.band);
  // The sort is stable: among models that match equally well (rank), the newest profile stays the first.
  const bestFirst = sortNewestFirst(candidates).toSorted((a, b) => a.rank - b.rank);
  const inBand = bestFirst.filter((candidate) => region !== undefined && servesRegion(candidate.region, region));
  // The models whose names match best have a profile for the band, so the firmware version is what does not match.
  if (selectBestMatches(candidates).some((candidate) => inBand.includes(candidate)))
    return profileNotFound(
      'firmware_version',
      `${formatModel(query)} has no firmware ${quoteForDisplay(query.firmwareVersion ?? '')} for the band ${String(region)}`,
      inBand.map(({ id }) => id),
    );
  const message =
    region === undefined
      ? `${quoteForDisplay(query.band)} is not a LoRaWAN band (use one of ${REGIONS.join(', ')})`
      : `${formatModel(query)} has no profile for the band ${region}`;
  return profileNotFound('band', message, getFirstOfEachRegion(bestFirst));
}

/** Returns the id of the first profile of each region. */
function getFirstOfEachRegion(candidates: readonly Candidate[]): string[] {
  return [...Map.groupBy(candidates, ({ region }) => region).values()].flatMap(([first]) => (first ? [first.id] : []));
}

/** Creates the error for an unknown model of a known brand. */
function modelNotFound({ query, model: foldedModel }: NotFoundCause, models: readonly AliasedModel[]): DomainError {
  const similar = findSimilar(
    foldedModel,
    models.map(({ brandId, modelId, alias }) => ({ id: `${brandId}/${modelId}`, texts: [alias] })),
  );
  return profileNotFound(
    'model',
    `model ${quoteForDisplay(query.model)} of the brand ${quoteForDisplay(query.brand)} not found among the imported profiles`,
    similar,
  );
}

/**
 * Creates the error for an unknown brand. It lists similar brands, and the models with the requested name: those of
 * similar brands first, those of other brands last.
 */
async function brandNotFound(
  repository: SuggestionRepository,
  { query, brand, model: foldedModel }: NotFoundCause,
): Promise<DomainError> {
  const brands = await repository.listBrands();
  if (brands.length === 0)
    return new DomainError(
      'not_found',
      'profile_not_found',
      'no device profiles are imported; on the server, run plantroom profiles import <folder> with a checkout of a profile repository',
      { metadata: { missing: 'profiles' } },
    );
  const similar = findSimilar(
    brand,
    brands.map(({ brandId, folded }) => ({ id: brandId, texts: [brandId, folded] })),
  );
  const models = await repository.findModelsByName(foldedModel);
  const ofSimilarBrands = models.filter(({ brandId }) => similar.includes(brandId));
  const ofOtherBrands = models.filter(({ brandId }) => !similar.includes(brandId));
  return profileNotFound('brand', `brand ${quoteForDisplay(query.brand)} not found among the imported profiles`, [
    ...listIds(ofSimilarBrands),
    ...similar,
    ...listIds(ofOtherBrands),
  ]);
}

function listIds(models: readonly NamedModel[]): string[] {
  return models.map(({ brandId, modelId }) => `${brandId}/${modelId}`).toSorted(compareTexts);
}

/** Returns the ids of items with a similar name, the most similar first. */
function findSimilar(
  name: string,
  items: readonly { readonly id: string; readonly texts: readonly string[] }[],
): string[] {
  const normalizedName = normalizeName(name);
  const ranked = items.flatMap(({ id, texts }) => {
    const distances = texts.flatMap((text) => computeDistance(normalizedName, normalizeName(text)) ?? []);
    return distances.length === 0 ? [] : [{ id, distance: Math.min(...distances) }];
  });
  return ranked.toSorted((a, b) => a.distance - b.distance || compareTexts(a.id, b.id)).map(({ id }) => id);
}

/**
 * Creates the error `profile_not_found`. `missing`: the field that does not match. `similar`: ids, the most similar
 * first.
 */
function profileNotFound(missing: string, message: string, similar: readonly string[]): DomainError {
  const names = [...new Set(similar)].slice(0, MAX_LISTED_NAMES);
  if (names.length === 0)
    return new DomainError('not_found', 'profile_not_found', `${message}; ListDeviceProfiles lists them`, {
      metadata: { missing },
    });
  return new DomainError(
    'not_found',
    'profile_not_found',
    `${message}; similar: ${names.map((id) => truncateForDisplay(id, MAX_SHOWN_LENGTH * 2)).join(', ')}`,
    { metadata: { missing, near: names.join(',') } },
  );
}

function formatModel({ brand, model: name }: ProfileQuery): string {
  return `${quoteForDisplay(brand)} ${quoteForDisplay(name)}`;
}

function quoteForDisplay(text: string): string {
  return JSON.stringify(truncateForDisplay(text, MAX_SHOWN_LENGTH));
}
