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
    /// One of them cannot say it.
    pub(crate) async fn find(&self, key: &Key) -> Result<Found, Error> {
        let mut found = Found::default();
        for place in self.all() {
            let objects = place.list(&key.directory()).await?;
            let segments =
                objects.iter().filter_map(|object| Segment::of_object(place, object)).map(Arc::new);
            found.all.extend(segments);
            if Arc::ptr_eq(place, &self.current) {
                found.current.clone_from(&found.all);
            }
        }
        Ok(found)
    }
}
