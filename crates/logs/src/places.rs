//! The place that is written to, and those that were before.

use std::sync::Arc;

use crate::log::Key;
use crate::place::Place;
use crate::segment::Segment;
use crate::{Config, Error};

pub(crate) struct Places {
    pub(crate) current: Arc<Place>,
    earlier: Vec<Arc<Place>>,
}

/// Segments of a log.
#[derive(Default)]
pub(crate) struct Found {
    /// In all places.
    pub(crate) all: Vec<Arc<Segment>>,
    /// Of these, those in the place that is written to.
    pub(crate) current: Vec<Arc<Segment>>,
    /// An earlier place that could not say what it has.
    pub(crate) lacks: Option<Error>,
}

impl Places {
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
        let open = |name: &String| Place::open(name, config).map(Arc::new);
        let earlier = config.earlier_places.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { current: open(&config.place)?, earlier })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Place>> {
        std::iter::once(&self.current).chain(&self.earlier)
    }

    /// What is kept of a log. What two places have is equal.
    ///
    /// # Errors
    /// The one that is written to cannot say it.
    pub(crate) async fn find(&self, key: &Key) -> Result<Found, Error> {
        let current = segments(&self.current, key).await?;
        let mut found = Found { all: current.clone(), current, lacks: None };
        for place in &self.earlier {
            match segments(place, key).await {
                Ok(segments) => found.all.extend(segments),
                Err(error) => found.lacks = Some(error),
            }
        }
        Ok(found)
    }
}

async fn segments(place: &Arc<Place>, key: &Key) -> Result<Vec<Arc<Segment>>, Error> {
    let objects = place.list(&key.directory()).await?;
    Ok(objects.iter().filter_map(|object| Segment::of_object(place, object)).map(Arc::new).collect())
}
