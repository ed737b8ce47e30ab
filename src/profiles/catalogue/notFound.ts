import { DomainError } from '../../kernel/errors';
import { shortened } from '../../kernel/shortened';
import { findRegion, REGIONS, servesRegion } from '../regions';
import { meantModels } from './bestProfile';
import type { ProfileQuery } from './catalogue';
import { comparable, distance } from './nearness';
import type { NamedModel, NearRepository, SpelledModel } from './nearRepository';
import { newestFirst } from './newestFirst';
import type { Candidate } from './profileRepository';
import { compareTexts } from './versions';

const MOST_NAMED = 5;
const LONGEST_SHOWN = 80;

/** A query with brand and model folded, and the profiles of the models that are called so. */
export interface Missed {
  readonly query: ProfileQuery;
  readonly brand: string;
  readonly model: string;
  readonly candidates: readonly Candidate[];
}

/** `profile_not_found` for a query that no profile fits: it says which part of it does not, and names up to five that are near. */
export async function notFoundBy(repository: NearRepository, missed: Missed): Promise<DomainError> {
  if (missed.candidates.length > 0) return ofKnownModel(missed);
  const models = await repository.modelsAround(missed.brand, missed.model);
  return models.length === 0 ? await ofUnknownBrand(repository, missed) : ofUnknownModel(missed, models);
}

function ofKnownModel({ query, candidates }: Missed): DomainError {
  const region = findRegion(query.band);
  const newest = newestFirst(candidates).toSorted((a, b) => a.rank - b.rank);
  const ofBand = newest.filter((candidate) => region !== undefined && servesRegion(candidate.region, region));
  if (meantModels(candidates).some((candidate) => ofBand.includes(candidate))) return notFound('firmware_version', `${model(query)} has no firmware ${quoted(query.firmwareVersion ?? '')} for the band ${String(region)}`, ofBand.map(({ id }) => id));
  const bands = region === undefined ? `${quoted(query.band)} is no band of LoRaWAN (${REGIONS.join(', ')})` : `${model(query)} has no profile for the band ${region}`;
  return notFound('band', bands, firstOfEach(newest));
}

/** The first profile of each region. */
function firstOfEach(candidates: readonly Candidate[]): string[] {
  return [...Map.groupBy(candidates, ({ region }) => region).values()].flatMap(([first]) => (first ? [first.id] : []));
}

function ofUnknownModel({ query, model: asked }: Missed, models: readonly SpelledModel[]): DomainError {
  const near = nearest(asked, models.map(({ brandId, modelId, spelled }) => ({ id: `${brandId}/${modelId}`, texts: [spelled] })));
  return notFound('model', `no model ${quoted(query.model)} of the brand ${quoted(query.brand)} was imported`, near);
}

async function ofUnknownBrand(repository: NearRepository, { query, brand, model: asked }: Missed): Promise<DomainError> {
  const brands = await repository.brands();
  if (brands.length === 0) return new DomainError('not_found', 'profile_not_found', 'no device profiles were imported; on the server, run plantroom profiles import <folder> with a copy of a repository of profiles', { metadata: { missing: 'profiles' } });
  const near = nearest(brand, brands.map(({ brandId, folded }) => ({ id: brandId, texts: [brandId, folded] })));
  const models = await repository.modelsCalled(asked);
  const [meant, elsewhere] = [models.filter(({ brandId }) => near.includes(brandId)), models.filter(({ brandId }) => !near.includes(brandId))];
  return notFound('brand', `no brand ${quoted(query.brand)} was imported`, [...idsOf(meant), ...near, ...idsOf(elsewhere)]);
}

function idsOf(models: readonly NamedModel[]): string[] {
  return models.map(({ brandId, modelId }) => `${brandId}/${modelId}`).toSorted(compareTexts);
}

/** The ids of those that are near, the nearest first. */
function nearest(asked: string, named: readonly { readonly id: string; readonly texts: readonly string[] }[]): string[] {
  const wanted = comparable(asked);
  const ranked = named.flatMap(({ id, texts }) => {
    const distances = texts.flatMap((text) => distance(wanted, comparable(text)) ?? []);
    return distances.length === 0 ? [] : [{ id, distance: Math.min(...distances) }];
  });
  return ranked.toSorted((a, b) => a.distance - b.distance || compareTexts(a.id, b.id)).map(({ id }) => id);
}

function notFound(missing: string, what: string, near: readonly string[]): DomainError {
  const named = [...new Set(near)].slice(0, MOST_NAMED);
  if (named.length === 0) return new DomainError('not_found', 'profile_not_found', `${what}; ListDeviceProfiles shows what was`, { metadata: { missing } });
  return new DomainError('not_found', 'profile_not_found', `${what}; near are ${named.map((id) => shortened(id, LONGEST_SHOWN * 2)).join(', ')}`, { metadata: { missing, near: named.join(',') } });
}

function model({ brand, model: name }: ProfileQuery): string {
  return `${quoted(brand)} ${quoted(name)}`;
}

function quoted(text: string): string {
  return JSON.stringify(shortened(text, LONGEST_SHOWN));
}
