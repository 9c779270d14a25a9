// The OpenID Connect provider of the tests: oidc-provider, with a few people and clients that everybody knows.
//
//   node provider.mjs PORT DIRECTORY [METHOD]
//
// It is good for nothing else: any password opens an account. It serves 127.0.0.1, and prints its issuer when it does;
// PORT 0 is any one that is free. Its keys stay in DIRECTORY. METHOD is the only way in which clients with a secret show
// it; without one, client_secret_basic and client_secret_post are good.

import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

import Provider from 'oidc-provider';

const [port, directory, method] = process.argv.slice(2);

const REDIRECT = 'http://127.0.0.1:7070/api/sign-in/oidc/done';

// The name that is typed is the subject. Who is not listed is nobody.
const PEOPLE = {
  ann: { groups: ['tidemill-admins', 'analytics', 'everybody'], roles: ['operator'] },
  ben: { groups: ['risk', 'analytics'], roles: ['operator', 'reader'] },
  // In no group, which is not the same as a provider that tells nothing of groups.
  cem: { groups: [], roles: [] },
  // Nothing is told of this one's groups.
  dee: {},
};

const secret = (client_id, more) => ({
  client_id,
  client_secret: `secret of ${client_id}: 100% & more`,
  redirect_uris: [REDIRECT],
  token_endpoint_auth_method: method ?? 'client_secret_basic',
  ...more,
});

const CLIENTS = [
  secret('tidemill'),
  secret('tidemill-es256', { id_token_signed_response_alg: 'ES256' }),
  {
    client_id: 'tidemill-public',
    redirect_uris: [REDIRECT],
    token_endpoint_auth_method: 'none',
    id_token_signed_response_alg: 'EdDSA',
  },
];

function key(kid, alg, type, options) {
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: 'jwk' }), kid, alg, use: 'sig' };
}

// Made once, beside their place first, so that a restart changes nothing.
function kept() {
  const file = join(directory, 'keys.json');
  if (!existsSync(file)) {
    mkdirSync(directory, { recursive: true });
    const keys = [
      key('rsa', 'RS256', 'rsa', { modulusLength: 2048 }),
      key('ec', 'ES256', 'ec', { namedCurve: 'P-256' }),
      key('ed', 'EdDSA', 'ed25519'),
    ];
    const cookies = [randomBytes(32).toString('base64url')];
    writeFileSync(`${file}.partial`, JSON.stringify({ keys, cookies }), { mode: 0o600 });
    renameSync(`${file}.partial`, file);
  }
  return JSON.parse(readFileSync(file, 'utf8'));
}

function account(login) {
  if (!Object.hasOwn(PEOPLE, login)) return undefined;
  const { groups, roles } = PEOPLE[login];
  return {
    accountId: login,
    claims: () => ({
      sub: login,
      preferred_username: login,
      name: login,
      email: `${login}@example.org`,
      email_verified: true,
      groups,
      realm_access: roles && { roles },
    }),
  };
}

const { keys, cookies } = kept();
const server = createServer();
server.listen(Number(port), '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: CLIENTS,
    jwks: { keys },
    cookies: { keys: cookies },
    findAccount: (ctx, login) => account(login),
    scopes: ['openid', 'profile', 'email', 'groups'],
    claims: {
      openid: ['sub'],
      profile: ['preferred_username', 'name'],
      email: ['email', 'email_verified'],
      groups: ['groups', 'realm_access'],
    },
    clientAuthMethods: method ? [method, 'none'] : ['client_secret_basic', 'client_secret_post', 'none'],
    features: { devInteractions: { enabled: true } },
  });
  server.on('request', provider.callback());
  console.log(`issuer ${issuer}`);
});
process.on('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
});
